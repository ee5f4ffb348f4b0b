"""The log as DataFrames. pyspark, pyarrow and numpy are imported in this package only."""
