package hold_test

import (
	"reflect"
	"testing"

	"github.com/fermata-ai/fermata/internal/hold"
)

type core struct{ name string }

// handle is an alias, so that the field has a name of its own package's.
type handle = hold.Handle[*core]

type public struct{ handle }

func TestAPublicTypeHandsOverItsCoreAndShowsNothingOfIt(t *testing.T) {
	c := &core{"engine"}
	p := &public{hold.New(c)}
	if got := hold.Of(p); got != c {
		t.Errorf("hold.Of gives %v", got)
	}
	if n := reflect.TypeOf(p).NumMethod(); n != 0 {
		t.Errorf("%d methods are exported", n)
	}
	if f := reflect.TypeOf(*p).Field(0); f.IsExported() {
		t.Errorf("the field %s is exported", f.Name)
	}
}
