"""The rules, one RPC per file: functions of replica, event and time."""
