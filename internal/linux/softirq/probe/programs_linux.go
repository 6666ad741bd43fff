package probe

import (
	"github.com/cilium/ebpf"
	"github.com/cilium/ebpf/asm"

	"github.com/nettoll/nettoll/internal/linux/softirq"
)

// entering records when a CPU starts a softirq.
func entering(times *ebpf.Map) asm.Instructions {
	return append(slot(times),
		asm.FnKtimeGetNs.Call(),
		asm.StoreMem(asm.R7, int16(softirq.OffEntered), asm.R0, asm.DWord),
		asm.Mov.Imm(asm.R0, 0).WithSymbol("out"),
		asm.Return(),
	)
}

// leaving adds the time since then to that of the vector. Without a recorded start (the probe was switched on in
// between), it adds nothing.
func leaving(times *ebpf.Map) asm.Instructions {
	// The context of a raw tracepoint is its arguments, 8 bytes each (struct bpf_raw_tracepoint_args,
	// include/uapi/linux/bpf.h). softirq_exit has one argument, the vector (include/trace/events/irq.h).
	list := append(asm.Instructions{asm.LoadMem(asm.R6, asm.R1, 0, asm.DWord)}, slot(times)...)
	return append(list,
		asm.LoadMem(asm.R8, asm.R7, int16(softirq.OffEntered), asm.DWord),
		asm.JEq.Imm(asm.R8, 0, "out"),
		asm.JGE.Imm(asm.R6, softirq.Vectors, "out"), // a vector of a newer kernel
		asm.FnKtimeGetNs.Call(),
		asm.Sub.Reg(asm.R0, asm.R8),
		asm.Mov.Imm(asm.R1, 0),
		asm.StoreMem(asm.R7, int16(softirq.OffEntered), asm.R1, asm.DWord),
		asm.LSh.Imm(asm.R6, 3), // 8 bytes for each vector
		asm.Add.Reg(asm.R7, asm.R6),
		asm.LoadMem(asm.R1, asm.R7, int16(softirq.OffTime), asm.DWord),
		asm.Add.Reg(asm.R1, asm.R0),
		asm.StoreMem(asm.R7, int16(softirq.OffTime), asm.R1, asm.DWord),
		asm.LoadMem(asm.R1, asm.R7, int16(softirq.OffRuns), asm.DWord),
		asm.Add.Imm(asm.R1, 1),
		asm.StoreMem(asm.R7, int16(softirq.OffRuns), asm.R1, asm.DWord),
		asm.Mov.Imm(asm.R0, 0).WithSymbol("out"),
		asm.Return(),
	)
}

// slot loads the address of this CPU's slot into R7. A softirq does not change its CPU.
func slot(times *ebpf.Map) asm.Instructions {
	return asm.Instructions{
		asm.FnGetSmpProcessorId.Call(),
		asm.StoreMem(asm.RFP, -4, asm.R0, asm.Word),
		asm.Mov.Reg(asm.R2, asm.RFP),
		asm.Add.Imm(asm.R2, -4),
		asm.LoadMapPtr(asm.R1, times.FD()),
		asm.FnMapLookupElem.Call(),
		asm.JEq.Imm(asm.R0, 0, "out"),
		asm.Mov.Reg(asm.R7, asm.R0),
	}
}
