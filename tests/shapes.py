"""The run-time check of shapes and types, as the tests use it."""

from beartype import BeartypeConf, beartype

# An int is a number, too: Range(1) is fine where a float is declared.
check = beartype(conf=BeartypeConf(is_pep484_tower=True))
