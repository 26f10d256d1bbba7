"""What a type checker refuses: each line with a mark, and no other. Nothing runs this."""

import atcpy
from atcpy import nothing  # refused: attr-defined

nothing()
atcpy.nope()  # refused: attr-defined
atcpy.convert("m.onnx", "m.om", no_such_option=1)  # refused: call-arg
atcpy.convert("m.onnx", "m.om", oo_level=2.5)  # refused: arg-type
atcpy.optimize("m.onnx", "n.onnx", soc="Ascend910")  # refused: call-arg
atcpy.check("m.onnx", sharp=True)  # refused: call-arg
atcpy.check(7)  # refused: arg-type
atcpy.freeze("m", "m.pb", soc="Ascend910")  # refused: call-arg
atcpy.quantize("m.onnx", "q.onnx", calibrate="samples", bits=4)  # refused: call-arg
atcpy.quantize("m.onnx", "q.onnx")  # refused: call-arg
atcpy.inspect("m.om", "task")  # refused: call-overload
atcpy.verify("m.om", tolerance=1)  # refused: call-arg
atcpy.bench("m.om", rounds=3)  # refused: call-arg
atcpy.diff("a.om", "b.om", sizes=True)  # refused: call-arg
atcpy.report("m.om", themes=2)  # refused: call-arg
atcpy.explain("m.om", question="why")  # refused: call-arg
atcpy.passes(7)  # refused: call-overload
assert atcpy.verify("m.om").perfect  # refused: attr-defined
atcpy.InferenceSession("m.om", device="cpu")  # refused: call-arg
