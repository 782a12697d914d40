"""Whether a machine can measure, and has what an experiment needs: findings with remedies."""
