"""The rules, one RPC a file: what a replica does when something happened. Functions of replica, event and time."""
