"""Every member is started on this host with a lower priority."""

from steplab.runner.ranks.launching import ProcessLauncher


class NicedLauncher(ProcessLauncher):
    """Starts members one by one through `nice`, auxiliary ones first: ranks look for them."""

    def processes(self):
        """A process for each member."""
        for member in sorted(self.launch.members, key=lambda member: member.is_rank):
            command = ["nice", "-n", "5", *self.launch.member(member.number)]
            yield self.spawn(command, (member.number,), self.launch.folder.log(member.number))


LAUNCHER = NicedLauncher
