// Package iptunnel is the step that makes links which carry IP packets to other hosts, in IP packets or in GRE. The
// kernel's devices do that, or eBPF programs.
package iptunnel
