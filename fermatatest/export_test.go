package fermatatest

// Half has scenarios cut in half of the ways only: in the one half, or in the
// other.
func (o *Options) Half(other bool) {
	o.half = 1
	if other {
		o.half = 2
	}
}
