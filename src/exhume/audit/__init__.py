"""Audits: does a model that is about to be published carry its training set?"""
