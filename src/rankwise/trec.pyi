from rankwise.evaluation.trec import join as join
from rankwise.evaluation.trec import read_qrels as read_qrels
from rankwise.evaluation.trec import read_run as read_run
from rankwise.evaluation.trec import write_qrels as write_qrels
from rankwise.evaluation.trec import write_run as write_run
