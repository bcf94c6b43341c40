"""The rules, one file each; importing this package makes them known."""

from timeplex.auditing.rules import begin_after_end as begin_after_end
from timeplex.auditing.rules import contradiction as contradiction
from timeplex.auditing.rules import duration as duration
from timeplex.auditing.rules import gap as gap
from timeplex.auditing.rules import implausible_date as implausible_date
from timeplex.auditing.rules import lifespan as lifespan
from timeplex.auditing.rules import missing_mirror as missing_mirror
from timeplex.auditing.rules import one_at_a_time as one_at_a_time
from timeplex.auditing.rules import ordering as ordering
from timeplex.auditing.rules import rhythm as rhythm
from timeplex.auditing.rules import unlikely_entity as unlikely_entity
