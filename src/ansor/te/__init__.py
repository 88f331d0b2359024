"""The problem: tensor expressions, their DAG, its analysis, reference and library."""
