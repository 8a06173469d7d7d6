from .cirq import from_cirq as from_cirq
from .cirq import to_cirq as to_cirq
from .json import from_json as from_json
from .json import to_json as to_json
from .qasm.reader import from_qasm as from_qasm
from .qasm.writer import to_qasm as to_qasm
from .qiskit import from_qiskit as from_qiskit
from .qiskit import to_qiskit as to_qiskit
