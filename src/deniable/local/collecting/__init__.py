"""Reports over a declared list of values, as devices make them and files hold them."""
