package openai

import (
	"slices"

	"github.com/openai/openai-go/v3/responses"
)

// Items are told apart by their ids, so that several may have one place in the
// output. Where an id isn't known they are by their place, since some servers
// give an item another id in each event. An event that may belong to several
// items is an error.

func (r *reply) begin(e responsesEvent) error {
	if e.OutputIndex == nil {
		return r.malformed("%s names no place in the output", e.Type)
	}
	for _, it := range r.items {
		another := it.own != "" && e.Item.ID != "" && it.own != e.Item.ID
		if it.place == *e.OutputIndex && !another {
			return r.malformed("output[%d] begins twice", *e.OutputIndex)
		}
	}
	_, err := r.add(*e.OutputIndex, e.Item)
	return err
}

// find returns the item of a kind that an event is about. own is the item's id,
// and call that of a call, as far as they are told.
func (r *reply) find(e responsesEvent, kind, own, call string) (*item, error) {
	var known, here []*item
	for _, it := range r.items {
		isOwn := own != "" && it.own == own
		isHere := e.OutputIndex != nil && it.place == *e.OutputIndex
		switch {
		case isOwn && isHere:
			return it.takes(e, kind)
		case isOwn:
			known = append(known, it)
		case isHere:
			here = append(here, it)
		}
	}
	switch {
	case len(known) == 1:
		return known[0].takes(e, kind)
	case e.OutputIndex == nil:
		return nil, r.malformed("%s names no place in the output", e.Type)
	case len(here) == 0:
		return nil, r.malformed("%s for output[%d], which has not begun", e.Type, *e.OutputIndex)
	case len(here) == 1:
		return here[0].takes(e, kind)
	}
	open := slices.DeleteFunc(slices.Clone(here), func(it *item) bool {
		return it.done || it.kind != kind || call != "" && it.id != call
	})
	switch len(open) {
	case 0:
		return here[len(here)-1].takes(e, kind)
	case 1:
		return open[0], nil
	}
	return nil, r.malformed("%s for one of %d items of output[%d]", e.Type, len(open),
		*e.OutputIndex)
}

// takes returns the item, if an event of the kind fits it.
func (it *item) takes(e responsesEvent, kind string) (*item, error) {
	switch {
	case it.done:
		return nil, voice(responsesName).malformed("%s for output[%d], which is done", e.Type,
			it.place)
	case it.kind != kind:
		return nil, voice(responsesName).malformed("%s for output[%d], which is a %s and no %s",
			e.Type, it.place, it.kind, kind)
	}
	return it, nil
}

// match finds the items that have come in the response's output: for each entry
// its item, nil if it has not come. What can be told by an id is, before the
// rest is told by its place: taken for another's, an entry would count twice.
func (r *reply) match(output []responses.ResponseOutputItemUnion) []*item {
	shared := false // the places in the stream are none of the list
	for i, it := range r.items {
		alike := func(other *item) bool { return other.place == it.place }
		shared = shared || slices.ContainsFunc(r.items[:i], alike)
	}
	found := make([]*item, len(output))
	for _, is := range []func(it *item, place int64, raw responses.ResponseOutputItemUnion) bool{
		func(it *item, _ int64, raw responses.ResponseOutputItemUnion) bool {
			return raw.ID != "" && it.own == raw.ID
		},
		func(it *item, _ int64, raw responses.ResponseOutputItemUnion) bool {
			return it.kind == "function_call" && raw.CallID != "" && it.id == raw.CallID
		},
		func(it *item, place int64, _ responses.ResponseOutputItemUnion) bool {
			return it.place == place && !shared
		},
		func(it *item, _ int64, raw responses.ResponseOutputItemUnion) bool {
			return shared && (it.kind != "function_call" || it.id == raw.CallID)
		},
	} {
		for i, raw := range output {
			free := func(it *item) bool {
				return it.kind == raw.Type && !slices.Contains(found, it) && is(it, int64(i), raw)
			}
			if all := r.those(free); found[i] == nil && len(all) > 0 {
				found[i] = all[0]
			}
		}
	}
	return found
}

func (r *reply) those(are func(*item) bool) (all []*item) {
	for _, it := range r.items {
		if are(it) {
			all = append(all, it)
		}
	}
	return all
}
