"""Turns a quorum's log into tables: bronze (raw batches), silver (decoded records), gold (summaries).

Every step is a function from DataFrames to a DataFrame, the same in local mode and on a cluster; `run` combines them
into one stream that writes each row once.
"""
