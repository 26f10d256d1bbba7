"""The catalogue of error codes.

The codes are ATC's where the cause is the same, so that a search for the code finds help; the rest are ours. The table
is behind `docs/errors.md` and `atcpy explain CODE`; a code that is not in it cannot be raised.
"""

from typing import NamedTuple


class CodeRow(NamedTuple):
    """One row of the table: `exits` has two members where the cause decides (the file, or the disk)."""

    code: str
    exits: tuple[int, ...]
    when: str
    help: str


_FIND_THE_ERROR = (
    "atcpy verify F.om --locate finds the node, --suggest KEEP.cfg the nodes that a precision mode must keep, "
    "atcpy passes bisect M.onnx the pass"
)
_TABLE: tuple[tuple[str, tuple[int, ...], str, str], ...] = (
    # Options
    ("E10001", (2,), "the value of an option is not one of the possible ones", "take one of the listed choices"),
    ("E10002", (2,), "--input_shape cannot be read", '--input_shape="name:1,3,224,224;other:1"'),
    ("E10003", (2,), "the value of an option has the wrong type", "give a number where one is asked for"),
    ("E10004", (2,), "an option has no value", "write --option=value"),
    ("E10005", (2,), "an option that is true or false has another value", "write true or false"),
    ("E10006", (2,), "an option that is 0 or 1 has another value", "write 0 or 1"),
    ("E10007", (2,), "the framework is unknown", "5 is ONNX, 3 is TensorFlow"),
    ("E10009", (2,), "two of the options that list gears are given", "--dynamic_dims lists sizes of any dims"),
    ("E10010", (2,), "the log level is unknown", "debug, info, warning, error or null"),
    ("E10011", (2,), "a dimension in --input_shape is zero or negative", "give its size, or a range such as 1~8"),
    ("E10013", (2,), "a number is out of its range", "take a number inside the range"),
    ("E10014", (2,), "a number cannot be read", "write it in digits, with K, M or G where a size is asked for"),
    ("E10016", (2,), "the model has no node or value of that name", "take one of the nearest names"),
    ("E10017", (2,), "the named node is not an input", "take one of the listed inputs"),
    (
        "E10018",
        (2,),
        "--dynamic_batch_size: a dimension other than the first is -1",
        "--dynamic_dims lists sizes of any dims",
    ),
    ("E10019", (2,), "--dynamic_image_size: other dimensions than H and W are -1", "--input_format names the layout"),
    ("E10020", (2,), "--dynamic_image_size: a gear is not two numbers", "write height,width;height,width"),
    ("E10021", (2,), "a path is longer than the system allows", "use a shorter path"),
    ("E10022", (2,), "the output names a directory", "add a file name to it"),
    ("E10025", (2,), "a configuration file is not JSON", "correct it at the line that is named"),
    ("E10031", (2,), "--dynamic_batch_size: no input has -1 at dimension 0", "write -1 there in --input_shape"),
    ("E10032", (2,), "a JSON file lacks what is needed", "correct it at the line that is named"),
    ("E10034", (2,), "an input takes pictures of AIPP and is fed as float16", "drop one"),
    ("E10035", (2,), "there are fewer than 2 gears", "fix the shape: --input_shape"),
    ("E10036", (2,), "there are more than 100 gears", "list fewer, or keep the dims open"),
    ("E10037", (2,), "gears have different numbers of sizes", "give each gear as many numbers as the first"),
    ("E10038", (2,), "a gear has a size of 0 or less", "sizes begin at 1"),
    ("E10039", (2,), "two gears are the same", "leave one out"),
    ("E10040", (2,), "gears are listed for an input with a range", "write -1 instead of the range"),
    ("E10041", (3,), "the file is not a model", "look at what the file is said to be: a pointer, a page, a part"),
    ("E10045", (2,), "--dynamic_dims: a gear has not one number for each -1", "count the -1 in --input_shape"),
    ("E10047", (2,), "two options exclude each other", "give one of them"),
    ("E10049", (2,), "--input_shape gives an input another rank than the model", "take the model's own rank"),
    (
        "E10050",
        (2,),
        "--input_shape contradicts a size that the model fixes",
        "take the model's size, or a range around it",
    ),
    (
        "E10052",
        (2,),
        "the configuration of AIPP does not fit itself or the model",
        "correct it at the line that is named",
    ),
    ("E10054", (2,), "a required option is missing", "give it; a ';' in a value needs quotes"),
    ("E10055", (4,), "this is not supported", "the message says the way round"),
    ("E10056", (2,), "two options exclude each other", "give one of them"),
    ("E10057", (2,), "an option is used only together with another", "give both, or none"),
    ("E10401", (2,), "run: the number of inputs is wrong", "`atcpy inspect F.om --io` lists the inputs"),
    (
        "E10402",
        (2,),
        "run: the number of dimensions of an input is wrong",
        "`atcpy inspect F.om --io` lists the shapes",
    ),
    ("E10403", (2,), "run: the type of an input is wrong", "convert the array to the type that is asked for"),
    ("E10404", (2,), "run: the model has no input of that name", "take one of the listed names"),
    ("E10405", (2,), "run: the shape of an input is wrong", "`atcpy inspect F.om --io` lists the shapes"),
    (
        "E10406",
        (2,),
        "run: a bound buffer is too small: the states of a session are full",
        "bind_state with a larger capacity, or reset_state",
    ),
    ("E10410", (2,), "a file does not exist", "take the nearest name in that directory"),
    # The model
    ("E10501", (4,), "the operator has no definition in the opset that the model imports", "raise the model's opset"),
    ("E11005", (2,), "--static: an input has open dimensions", 'fix them: --input_shape="name:1,3,224,224"'),
    ("E11016", (2,), "--out_nodes: the node has fewer outputs", "use an index that exists"),
    ("E11017", (2,), "--out_nodes: no such node", "take one of the nearest names"),
    ("E12009", (3,), "something reads a value that nothing makes", "export the model again; is it a part cut out?"),
    ("E12013", (3,), "a function that is called is not in the library", "save the graph with its functions"),
    ("E13009", (3,), "two values have the same name", "export the model again: a value has one producer"),
    ("E13014", (3,), "an attribute, a type or a body of an operator is invalid", "the message gives its rule"),
    (
        "E13015",
        (3,),
        "a file that belongs to the model is missing, too short or damaged",
        "copy it beside the model, whole",
    ),
    ("E13018", (2,), "a text protobuf cannot be read", "correct it at the line that is named"),
    ("E13023", (6,), "the package would be larger than its format allows", "--external_weight=1"),
    ("E14001", (4,), "the parameters of an operator cannot be compiled", "the message names the limit"),
    ("E16001", (3,), "the model has no inputs or no outputs", "export it again with its outputs"),
    ("E16004", (3,), "the file has no graph", "export the model again"),
    ("E16005", (3,), "the opset of a domain is given twice", "keep one opset_import of each domain"),
    ("EI0003", (2,), "a parameter of a collective is wrong", "the message gives the rule"),
    ("EI0004", (2,), "the file that says which ranks a group has is wrong", '--groups: {"name": [0, 1], …}'),
    ("EI0005", (2,), "several ranks need what is not installed", "pip install atcpy[dist]"),
    ("EI0007", (6,), "a rank ended, or does not come to a collective", "the message names the rank and the node"),
    ("E19010", (4,), "operators of the model are unknown", "a newer opset, a mistyped domain, or --custom-ops"),
    ("E2100C", (3,), "the graph has a cycle", "the message names the nodes on it"),
    ("EZ3002", (4,), "no engine takes the operator", "register a custom operator"),
    ("EZ3003", (4,), "no kernel takes this data type or format", "cast its inputs"),
    (
        "EZ8888",
        (3,),
        "the shapes of an operator's inputs do not fit",
        "look at the value of --input_shape that leads there",
    ),
    # Files and surroundings
    ("E13001", (2, 6), "a file cannot be opened", "look at its permissions"),
    ("E13003", (2, 6), "a file cannot be read", "look at its permissions and the disk"),
    ("E13004", (2, 6), "a file cannot be written", "look at the permissions of its directory, and the space"),
    ("E13005", (2, 6), "a file cannot be understood", "correct it at the place that is named"),
    ("E13024", (2,), "an environment variable has a wrong value", "correct or unset it"),
    ("E13025", (2,), "run: an input cannot be used", "the message gives the reason"),
    ("E13029", (2,), "a user's module or library cannot be loaded", "correct it at the line that is named"),
    ("E13030", (2,), "a user's operator cannot be registered", "the message gives the reason"),
    ("E13031", (2,), "run: an output cannot be used", "the message gives the reason"),
    ("E20003", (2,), "the content of a configuration file is wrong", "correct it at the line that is named"),
    ("E20007", (1,), "a pass broke the graph", "--skip-pass NAME, and report it: it is our bug"),
    # Packages
    ("P0001", (7,), "the file is not a package", "convert the model first: atcpy convert --model m.onnx"),
    ("P0002", (7,), "the package was written by a newer version", "update atcpy, or convert the model again"),
    ("P0003", (7,), "the package fails its checksum", "copy or convert it again"),
    ("P0004", (7,), "the package is truncated", "copy or convert it again"),
    ("P0005", (7,), "the package refers to something outside its bounds", "convert the model again"),
    ("P0006", (7,), "the signature does not fit the package", "get the package again from who signed it"),
    ("P0007", (7,), "the package is signed with another key", "compare the fingerprints with that of your signer"),
    ("P0008", (7,), "a signature is required, and the package has none", "atcpy convert … --sign KEY"),
    ("P0009", (7,), "the package was changed while it was in use", "write a new file, and rename it over the old one"),
    # Running and verifying
    ("D0001", (3,), "a value met while running breaks the rule of an operator", "look at the input that leads there"),
    ("D0002", (3,), "the ranks of a run do not run the same package", "give all of them the same file"),
    ("V0001", (5,), "an output is outside the tolerance", _FIND_THE_ERROR),
    ("V0002", (5,), "an output has NaN or infinity where the reference has none", _FIND_THE_ERROR),
    ("V0003", (3,), "the reference cannot run the model", "--oracle ref"),
    # Limits
    ("R0001", (6,), "the memory limit is reached", "raise --memory-limit, or make the shapes smaller"),
    ("R0002", (6,), "the disk is full", "make room, or write elsewhere"),
    ("R0003", (6,), "the time limit is reached", "raise --timeout"),
    ("R0004", (6,), "sessions have more groups of threads than the process can have", "the same CPUs, or none"),
    # The API of GE
    ("G0001", (2,), "the graph engine is not initialized, or was finalized since", "call ge.GEInitialize first"),
    ("G0002", (2,), "the graph engine is initialized already", "call ge.GEFinalize before"),
    ("G0003", (2,), "the session has no graph of that id", "call AddGraph first"),
    ("G0004", (2,), "the session has a graph of that id", "take another id, or call RemoveGraph before"),
    ("G0005", (2,), "a graph cannot be removed while it runs", "wait for its runs, and for their callbacks"),
    ("G0006", (2,), "the graph is not compiled", "call CompileGraph first"),
    # Custom operators
    ("C0001", (4,), "a custom operator raised an exception", "correct its code at the line that is named"),
    ("C0002", (4,), "a custom operator returned the wrong shape or type", "return what its shape function promised"),
    ("C0003", (4,), "a custom operator of the package is not registered", "--custom-ops module.py"),
    # Functions that atcpy.jit compiles
    (
        "J0001",
        (4,),
        "a Python function cannot be traced",
        "correct it at the line that is named, or take LAX",
    ),
    # Warnings (exit 0; --werror makes them errors)
    ("W0007", (0, 4), "a node was renamed, for its name was taken or empty", "name nodes uniquely when exporting"),
    ("W0008", (0, 4), "inputs have defaults, which a run may replace", "--fold_default_inputs makes them constants"),
    ("W0009", (0, 4), "inputs with a default were made constants", "feed nothing to them"),
    ("W0010", (0, 4), "features that the model would parse are its inputs", "parse them before: tf.io.parse_example"),
    ("W0012", (0, 2), "an option has no effect here", "drop it"),
    ("W0013", (0, 2), "a switch names a pass that does not exist", "take the nearest name; `atcpy passes list`"),
    ("W0020", (0, 4), "operators run on HOST_CPU, which is slow", "`atcpy inspect F.om --tasks` lists them"),
    ("W0021", (0, 4), "a lowered value may overflow", "--keep-fp32 NODE"),
    ("W0030", (0, 2), "the option is deprecated", "the message names its successor"),
    ("W0031", (0, 2), "a field of the AIPP configuration has no effect", "drop it, or switch on what it belongs to"),
    ("W0032", (0, 2), "--input_shape leaves an input open", 'list it, in quotes: --input_shape="x:1,3;y:1"'),
    ("W0040", (0, 4), "the opset of the model was raised", "skip the pass that brought in the newer op"),
    ("W0041", (0, 5), "the optimised model could not be verified", "name sizes for open dims: --input_shape"),
    ("W0042", (0, 4), "the model was written with less optimisation, or as it was", "the message says why"),
    ("W0043", (0, 2), "an output was of one class for all random inputs", "inputs of more classes: --input_data"),
    ("W0044", (0, 4), "doctor: ONNX Runtime is missing, and most cases were not run", "pip install 'atcpy[verify]'"),
    ("W0050", (0, 2), "more ranks run than there are cores: they wait for each other", "fewer ranks, or more cores"),
    ("W0051", (0, 2), "there are more threads than cores: they wait for each other", "fewer threads: --threads"),
    ("W0070", (0, 2), "no output has as many classes as the file of labels has lines", "take the labels of this model"),
    ("W0071", (0, 2), "a picture was squashed, or lost its colours", "crop it before, or take a picture that fits"),
    (
        "W0072",
        (0, 2),
        "a picture was fed as levels of 0 to 255",
        "--mean and --std of the model; if it has none, --std 1",
    ),
    ("W0060", (0, 2), "a private key can be read by others than its owner", "chmod 600 KEY"),
    ("W0090", (0, 2), "a saved benchmark is of another machine, model or engine", "save one with the same setting"),
    # Us
    (
        "X0001",
        (1,),
        "an internal error: a bug of atcpy",
        "report it with the command and `atcpy doctor --bundle F.zip`",
    ),
)

CODES: dict[str, CodeRow] = {row[0]: CodeRow(*row) for row in _TABLE}
