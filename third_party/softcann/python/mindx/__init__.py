"""mindx.sdk: the base of Vision SDK's Python interface, on acl."""
