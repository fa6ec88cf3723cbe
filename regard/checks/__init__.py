"""What can be wrong with data, by modality; fields ask for it.

findings     what a finding is, and every kind of it; docs/doctor.md says what each means
sides        parts of the data, their fields side by side
text         each side by itself: encoding, script, case, form
pairs        sides that belong together: shifted, swapped, copied
offsets      where one side runs ahead of the other
examples     what is there twice, leaked from one part into another, too long
labels       balance, labels that training lacks
series       numbers and times
coverage     tokenizer against the data
"""
