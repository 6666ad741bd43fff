// Package machine inspects a machine for what makes results unsteady: its CPUs, how they are clocked and shared, other
// programs, and the limits of its kernel. It only reads files, and reports which facts they do not have.
package machine
