package handles

import (
	"slices"
)

// share is a part of a reply that may be cut.
type share struct {
	size int       // in bytes of the JSON
	cut  func(int) // to so many bytes at most
}

// shares returns the parts of a reply that may be cut. They are cut in place.
func (r *Reply) shares() []share {
	all := []share{{width(r.Content), func(most int) {
		r.Content = Cut(r.Content, most, LeftOut)
	}}}
	if len(r.Result) > 0 {
		all = append(all, share{len(r.Result), func(most int) {
			r.Result = CutJSON(r.Result, most, LeftToFetch)
		}})
	}
	if q := r.Question; q != nil {
		all = append(all, share{width(q.Text), func(most int) {
			q.Text = Cut(q.Text, most, LeftToFetch)
		}})
		if len(q.Schema) > 0 { // a part of one would be another one
			all = append(all, share{len(q.Schema), func(int) { q.Schema = nil }})
		}
	}
	if e := r.Error; e != nil {
		trace := 0
		for _, line := range e.Trace {
			trace += width(line) + len(`"",`)
		}
		all = append(all, share{width(e.Message), func(most int) {
			e.Message = Cut(e.Message, most, LeftToFetch)
		}}, share{trace, func(most int) { e.Trace = firstLines(e.Trace, most) }})
	}
	return all
}

// shorten cuts the longest of some parts by so many bytes, together.
func shorten(all []share, by int) {
	sizes, room := make([]int, len(all)), -by
	for i, s := range all {
		sizes[i] = s.size
		room += s.size
	}
	level := level(sizes, max(room, 0))
	for _, s := range all {
		if s.size > level {
			s.cut(level)
		}
	}
}

// Within returns the reply so that its JSON has so many bytes at most. Content
// gives way first, then what else is long. A result that was taken within the
// limit stays whole: see tool.HandleRoom.
func (r Reply) Within(most int) (Reply, error) {
	r = cloned([]Reply{r})[0]
	whole, err := r.MarshalJSON()
	if err != nil || len(whole) <= most {
		return r, err
	}
	all := r.shares()
	over := len(whole) - most
	shorten(all[:1], over)
	if over -= all[0].size - width(r.Content); over > 0 {
		shorten(all[1:], over)
	}
	return r, nil
}

// firstLines returns the first lines that have so many bytes at most as JSON,
// each with its quotes and a comma.
func firstLines(lines []string, most int) []string {
	for i, line := range lines {
		if most -= width(line) + len(`"",`); most < 0 {
			return slices.Clip(lines[:i])
		}
	}
	return lines
}

// level returns the length to which the longest of some parts are cut, so that
// all together have so many bytes at most. What short parts leave of an equal
// share is for the longer ones.
func level(sizes []int, room int) int {
	sizes = slices.Clone(sizes)
	slices.Sort(sizes)
	for i, size := range sizes {
		if share := room / (len(sizes) - i); size > share {
			return share
		}
		room -= size
	}
	return room
}
