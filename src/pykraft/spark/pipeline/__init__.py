"""From a quorum's log to tables: bronze (batches as they are), silver (records decoded), gold (what happened).

Every step is a function from DataFrames to a DataFrame, the same in local mode and on a cluster; `run` joins them into
one stream that writes each row once.
"""
