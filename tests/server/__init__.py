"""Tests of the server: real sockets on the loopback interface, real threads, both loops."""
