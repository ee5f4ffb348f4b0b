"""The log as DataFrames. Only this package imports pyspark, pyarrow and numpy."""
