package tool

import (
	"context"
	"testing"

	"github.com/fermata-ai/fermata/internal/hold"
)

// testBox is a box, and hands out prepared calls as internal/toolbox does.
type testBox struct{ *box }

// prepared is a call that may be run.
type prepared struct {
	testBox
	Call Call
	name string
	left func(wait func())
}

// registry makes a box, and fails the test if it can't.
func registry(t testing.TB, tools ...Tool) testBox {
	t.Helper()
	r, err := limited(Limits{}, tools...)
	if err != nil {
		t.Fatal(err)
	}
	return r
}

func limited(l Limits, tools ...Tool) (testBox, error) {
	r, err := NewRegistry(tools, &l)
	if err != nil {
		return testBox{}, err
	}
	return testBox{hold.Of(r)}, nil
}

func (b testBox) Prepare(c Call) (*prepared, error) {
	call, err := b.box.Prepare(c)
	if err != nil {
		return nil, err
	}
	return &prepared{testBox: b, Call: call, name: c.Tool}, nil
}

func (p *prepared) Enter(ctx context.Context, c Call) (Execution, error) {
	exec, _, err := p.box.Enter(ctx, p.name, c, p.left)
	return exec, err
}

func (p *prepared) Reconcile(ctx context.Context, c Call) (Execution, bool, error) {
	return p.box.Reconcile(ctx, p.name, c, p.left)
}

func (p *prepared) Bounds(exec Execution) (Execution, error) { return p.box.Bounds(p.name, exec) }
