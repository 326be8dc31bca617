from rankwise.experiments.reproduce import reproduce as reproduce
from rankwise.experiments.results import Results as Results
from rankwise.experiments.spec import Spec as Spec
from rankwise.report.comparison import write_comparison as write_comparison
from rankwise.report.write import write_report as write_report
