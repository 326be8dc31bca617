from rankwise.model_selection.auto.leaderboard import Entry as Entry
from rankwise.model_selection.auto.leaderboard import Leaderboard as Leaderboard
from rankwise.model_selection.plot import draw_search as draw_search
from rankwise.model_selection.plot import search_size as search_size
from rankwise.model_selection.result import Tuning as Tuning
from rankwise.model_selection.search import DEFAULT as DEFAULT
from rankwise.model_selection.spaces import SPACES as SPACES
