"""The explorer: pages, REST and tools for agents over one KB or run. `service.Service` answers, the rest shows."""
