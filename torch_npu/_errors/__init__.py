"""What error codes mean, why they come, and what to do."""
