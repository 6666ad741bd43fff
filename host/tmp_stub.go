package host

import "errors"

var errTodo = errors.ErrUnsupported

func (Namespace) Apply(*Kernel) (func() error, error) { return nil, errTodo }
func (Bridge) Apply(*Kernel) (func() error, error)    { return nil, errTodo }
func (Veth) Apply(*Kernel) (func() error, error)      { return nil, errTodo }
func (Link) Apply(*Kernel) (func() error, error)      { return nil, errTodo }
func (Route) Apply(*Kernel) (func() error, error)     { return nil, errTodo }
func (Sysctl) Apply(*Kernel) (func() error, error)    { return nil, errTodo }
func (Namespace) Verify(*Kernel) error                { return errTodo }
func (Bridge) Verify(*Kernel) error                   { return errTodo }
func (Veth) Verify(*Kernel) error                     { return errTodo }
func (Link) Verify(*Kernel) error                     { return errTodo }
func (Route) Verify(*Kernel) error                    { return errTodo }
func (Sysctl) Verify(*Kernel) error                   { return errTodo }
