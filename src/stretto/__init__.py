"""stretto: many stateful streaming jobs on one Spark cluster."""
