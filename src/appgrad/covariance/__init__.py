"""Moments gathered in a pass, covariance operators on thin matrices, and small dense linear algebra."""
