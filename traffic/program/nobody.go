package program

import (
	"github.com/nettoll/nettoll/internal/linux/sock"
	"github.com/nettoll/nettoll/traffic"
)

// nobody is an end at which nothing is started: the kernel answers, in the CPU time of the sender.
type nobody struct {
	sample  traffic.Sample
	granted sock.Facts
}

func (n *nobody) Prepare(uint64)               { n.sample = traffic.Sample{} }
func (n *nobody) Run(uint64, traffic.Window)   {}
func (n *nobody) Sample() *traffic.Sample      { return &n.sample }
func (n *nobody) Recorders() traffic.Recorders { return traffic.Recorders{} }
func (n *nobody) Facts() (sock.Facts, error)   { return n.granted, nil }
func (n *nobody) Close()                       {}

// Collect implements [traffic.Collector]. The time that the thread took is not a figure.
func (n *nobody) Collect() { n.sample = traffic.Sample{Failure: n.sample.Failure} }
