package host

import (
	"context"
	"fmt"
)

// A Stack is what has been applied to a kernel, so that it can be verified and undone. The zero value is an empty
// stack. It is not safe for use by several goroutines.
type Stack struct{}

// Apply applies all steps of p in order. On an error what this call had applied is undone again, and the error names the
// number and the text of the step.
func (s *Stack) Apply(ctx context.Context, k *Kernel, p Plan) error { return fmt.Errorf("not yet") }

// Verify asks the kernel whether everything that was applied still stands.
func (s *Stack) Verify(ctx context.Context, k *Kernel) error { return fmt.Errorf("not yet") }

// Undo removes everything that was applied, the namespaces first and then the rest from the top.
// Undoing what is gone succeeds. What could not be undone stays on the stack, for another try.
func (s *Stack) Undo(ctx context.Context) error { return fmt.Errorf("not yet") }
