"""Gate: may this network ship? Its answers to a suite, or to a hunt of its own, against limits."""
