"""Force fields in OpenMM's XML format: reading them, matching residues with templates, and making systems.

Examples
--------
>>> from triskele.sponge import forcefield
>>> field = forcefield.ForceField("amber14/protein.ff14SB", "amber14/tip3p")
>>> field.templates["CYX"].names[-2:]
('C', 'O')
"""

from .create import as_forcefield, create_system
from .ffxml import ForceField
from .sources import shipped

__all__ = ["ForceField", "as_forcefield", "create_system", "shipped"]
