from rankwise.model_selection.cross_validate import Trainings as Trainings
from rankwise.model_selection.cross_validate import checked_ranker as checked_ranker
from rankwise.model_selection.cross_validate import finished_models as finished_models
from rankwise.model_selection.fold_splits import Fold as Fold
from rankwise.model_selection.fold_splits import fold_list as fold_list
