from rankwise.data.segments import Segment as Segment
from rankwise.evaluation.pairing import pair as pair
from rankwise.evaluation.score_files import columns_to_rank as columns_to_rank
from rankwise.evaluation.systems import Evaluated as Evaluated
from rankwise.evaluation.systems import FeatureModel as FeatureModel
from rankwise.evaluation.systems import IrDataset as IrDataset
from rankwise.evaluation.systems import Predictor as Predictor
from rankwise.evaluation.systems import Run as Run
from rankwise.evaluation.systems import Scored as Scored
from rankwise.evaluation.systems import on_data as on_data
from rankwise.evaluation.systems import scores_of as scores_of
from rankwise.evaluation.trec import qrels_frame as qrels_frame
from rankwise.evaluation.trec import ranked as ranked
from rankwise.evaluation.trec import run_frame as run_frame

from . import ranking_names as ranking_names
from . import segments as segments
from . import trec as trec
