"""A family a kind of target: how its distribution hangs on linear predictors."""
