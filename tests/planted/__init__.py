"""Small bugs at the borders, each with the test that catches it."""
