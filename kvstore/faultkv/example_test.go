package faultkv_test

import (
	"context"
	"errors"
	"fmt"

	"github.com/fermata-ai/fermata/kvstore"
	"github.com/fermata-ai/fermata/kvstore/faultkv"
)

func ExampleNew() {
	ctx := context.Background()
	f := faultkv.New(kvstore.NewMemory(), faultkv.LoseAt(2))
	create := kvstore.Batch{
		Preconditions: []kvstore.Precondition{{Key: []byte("b")}}, // absent
		Puts:          []kvstore.Put{{Key: []byte("b"), Value: []byte("2")}},
	}
	f.Store.Apply(ctx, kvstore.Batch{Puts: []kvstore.Put{{Key: []byte("a"), Value: []byte("1")}}})
	_, err := f.Store.Apply(ctx, create)
	fmt.Println("uncertain:", errors.Is(err, kvstore.ErrUncertain))
	_, err = f.Store.Apply(ctx, create)
	fmt.Println("it was carried out:", errors.Is(err, kvstore.ErrConflict))
	fmt.Println(f.Applies(), "tries,", f.Commits(), "acknowledged")
	// Output:
	// uncertain: true
	// it was carried out: true
	// 3 tries, 1 acknowledged
}

// A transfer in two writes is cut everywhere, and the restart has to mend it.
func ExampleCuts() {
	ctx := context.Background()
	put := func(s kvstore.Store, key, value string) error {
		_, err := s.Apply(ctx, kvstore.Batch{Puts: []kvstore.Put{{Key: []byte(key), Value: []byte(value)}}})
		return err
	}
	has := func(s kvstore.Store, key string) bool {
		_, err := s.Get(ctx, []byte(key))
		return err == nil
	}
	transfer := func(s kvstore.Store) error {
		return errors.Join(put(s, "taken", "5"), put(s, "given", "5"))
	}
	restart := func(s kvstore.Store) {
		if has(s, "taken") && !has(s, "given") {
			put(s, "given", "5")
		}
	}

	whole := faultkv.New(kvstore.NewMemory())
	transfer(whole.Store)
	for _, cut := range faultkv.Cuts(whole.Applies()) {
		memory := kvstore.NewMemory()
		transfer(faultkv.New(memory, cut).Store)
		after := memory.Reopen()
		restart(after)
		fmt.Printf("%s: taken %v, given %v\n", cut, has(after, "taken"), has(after, "given"))
	}
	// Output:
	// fail at 1 and die: taken false, given false
	// lose at 1 and die: taken true, given true
	// fail at 2 and die: taken true, given true
	// lose at 2 and die: taken true, given true
}
