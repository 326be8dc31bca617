"""Why a ranker ranks as it does."""
