package softirq

import (
	"sync/atomic"
	"unsafe"
)

// Vectors of softirqs (include/linux/interrupt.h) as in the kernel's tracing interface. /proc/softirqs has their names
// in this order.
const (
	NetTX   = 2
	NetRX   = 3
	Vectors = 10
)

// Slot is the probe's memory for one CPU. The programs write it at these offsets; all others only read. A CPU runs one
// softirq at a time, so a slot never has two writers.
type Slot struct {
	Entered uint64          // ns, CLOCK_MONOTONIC: start of the running softirq; 0 if there is none
	Time    [Vectors]uint64 // ns spent, by vector
	Runs    [Vectors]uint64 // how often, by vector
	_       [3]uint64       // slots of two CPUs share no cache line
}

// Offsets in a slot, in bytes.
const (
	OffEntered = unsafe.Offsetof(Slot{}.Entered)
	OffTime    = unsafe.Offsetof(Slot{}.Time)
	OffRuns    = unsafe.Offsetof(Slot{}.Runs)
	SlotSize   = unsafe.Sizeof(Slot{})
)

// Times is a mapping of the probe's counts since it was loaded.
type Times struct {
	mem   []byte
	slots []Slot
}

// Net returns the nanoseconds that these CPUs have spent in the softirqs of the network, sending and receiving. It does
// not include a softirq that is still running. Net reads plain memory.
//
//go:nosplit
func (t *Times) Net(cpus []int) int64 {
	var sum uint64
	for _, cpu := range cpus {
		if uint(cpu) < uint(len(t.slots)) {
			s := &t.slots[cpu]
			sum += atomic.LoadUint64(&s.Time[NetTX]) + atomic.LoadUint64(&s.Time[NetRX])
		}
	}
	return int64(sum)
}

// Vector returns the time that a CPU has spent in one vector, in nanoseconds, and how often it ran.
func (t *Times) Vector(cpu, vector int) (ns, runs uint64) {
	s := &t.slots[cpu]
	return atomic.LoadUint64(&s.Time[vector]), atomic.LoadUint64(&s.Runs[vector])
}
