"""What finds faults: who sees every operator, and the tools built on it. Most are imported when one is asked for."""
