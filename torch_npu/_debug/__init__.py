"""What finds faults: who sees every operator, and the tools built on it. Imported when one is asked for."""
