"""AIPP: what ATC's --insert_op_conf asks to be done to pictures before a model reads them."""
