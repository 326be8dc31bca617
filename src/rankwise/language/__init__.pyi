from rankwise.language.settings_files import SettingsFile as SettingsFile
from rankwise.language.workspace import FILE as FILE
from rankwise.language.workspace import Workspace as Workspace
from rankwise.language.workspace import refuse_existing as refuse_existing

from . import grammar as grammar
from . import registry as registry
from . import settings_files as settings_files
from . import syntax as syntax
from . import user_code as user_code
