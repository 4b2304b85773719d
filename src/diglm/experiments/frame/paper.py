"""What the paper found, in its own tables and its text (Nalisnick et al., ICML 2019).

https://arxiv.org/abs/1902.02767. Errors are shares; entropies and NLL are in nats.
"""

# Rows are weights w of lambda = w / D; starred there are densities of models that do not learn one.
TABLE_1 = {
    0.0: (81.80, 0.0067, 0.082, 87.74, 29.27, 0.130),
    0.01: (1.83, 0.0073, 0.035, 5.84, 2.36, 2.300),
    1.0: (1.26, 0.0222, 0.081, 6.13, 2.30, 2.300),
    10.0: (1.25, 0.0401, 0.145, 6.17, 2.30, 2.300),
}
TABLE_2 = {
    0.0: (15.40, 0.0426, 0.225, 15.20, 4.60, 0.998),
    0.1: (3.35, 0.0486, 0.260, 7.06, 5.06, 1.153),
    1.0: (2.40, 0.0523, 0.253, 6.16, 4.23, 1.677),
    10.0: (2.23, 0.0727, 0.268, 7.03, 2.69, 2.143),
}
# Error and NLL by the name of our row.
TABLE_3 = {
    "labels alone": (0.0661, 0.276),
    "with unlabelled images": (0.0099, 0.069),
    "all labels": (0.0073, 0.035),
}
TABLE_S1 = {
    "dropout": (0, 0.2, 0.5),
    "vat_radius": (1, 5),
    "entropy_weight": (0, 0.3, 1, 3),
    "vat_weight": (0, 0.3, 1, 3),
}
TABLE_S2 = {
    "labels alone": (0.1926, 0.78),
    "with unlabelled images": (0.0590, 0.38),
    "all labels": (0.0486, 0.26),
    "all labels and terms": (0.0280, 0.17),
}
# RMSE and NLL of the hybrid, in the text.
FLIGHTS = (40.46, 5.07)
