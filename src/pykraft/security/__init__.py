"""Who may connect, and how that is proven: protocols of listeners and clients, certificates, TLS, principals."""
