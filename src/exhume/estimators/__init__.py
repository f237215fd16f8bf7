"""Audits of scikit-learn estimators: what a fitted pipeline holds of the rows that it was fitted on."""
