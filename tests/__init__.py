"""Tests in tiers: unit, contract, parity, learn, fault."""
